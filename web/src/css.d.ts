/** The bundler adds style sheets to the bundle. */
declare module "*.css";
