/** Prints how many CPUs a Java program finds. */
class Counts {
  public static void main(String[] args) {
    System.out.println("Runtime.availableProcessors " + Runtime.getRuntime().availableProcessors());
  }
}
